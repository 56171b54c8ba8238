"""A resolver's words, as it says them, and what becomes of them."""

import pytest
from packaging.requirements import Requirement

from dlcontainer.errors import BuildError, ConfigError, DlcontainerError, MisfitError
from dlcontainer.packages.resolve import words
from dlcontainer.packages.resolve.resolution import Target
from dlcontainer.packages.resolve.words import Place

TARGET = Target(python="3.12", arch="aarch64", glibc="2.39")
PLACES = (
    Place(requirement=Requirement("alpha"), origin="req.txt:1"),
    Place(requirement=Requirement("Big_Name[x]>=2,<3"), origin="req.txt:2"),
    Place(requirement=Requirement("numpy>=2.3"), origin="req.txt:3"),
    Place(requirement=Requirement("torch==2.13.0+cpu"), origin="r.yaml:58", is_parents=True),
)
HEAD = "error: No solution found when resolving dependencies\n  cause: "
END = "we can conclude that your requirements are unsatisfiable."


def refusal(text: str) -> DlcontainerError:
    error = words.refusal(text, PLACES, TARGET, "req.txt")
    assert len(str(error).splitlines()) <= 6
    return error


def test_each_requirement_has_its_place() -> None:
    text = f"{HEAD}Because you require big-name[x]>=2,<3 and torch==2.13.0+cpu, {END}"
    error = refusal(text)
    assert isinstance(error, MisfitError)
    assert error.where == "req.txt:2"
    assert error.why == (
        "Because you require big-name[x]>=2,<3 (req.txt:2) and torch==2.13.0+cpu (r.yaml:58)."
    )
    assert error.next_step == (
        "change req.txt:2, or take a recipe (--extends) or a variant (--variant) with another "
        "torch: "
        "`dlcontainer plan RECIPE --site SITE -v` lists the variants"
    )


def test_a_version_at_a_sentence_s_end() -> None:
    text = (
        f"{HEAD}Because all versions of alpha depend on numpy<2.3 and you require alpha, we can "
        "conclude that you require numpy<2.3.\n"
        f"         And because you require numpy>=2.3, {END}\n"
    )
    error = refusal(text)
    assert error.why == (
        "Because all versions of alpha (req.txt:1) depend on numpy<2.3 and you require alpha, so "
        "you require numpy<2.3.\n    And because you require numpy>=2.3 (req.txt:3)."
    )
    assert error.next_step == "change req.txt:1 or req.txt:3"


def test_of_eighty_lines_the_last_cause_is_left() -> None:
    blocks = "".join(
        f"""Because all of:
             alpha>={n},<={n}.1
         have no usable wheels and numpy==2.{n}, we can conclude that alpha=={n} cannot be used.
         And because we know from ({n}) that alpha<{n} cannot be used, we can conclude that more.
         And because only the following versions of alpha are available:
             alpha<={n}
         we can conclude that alpha<{n} cannot be used. ({n})

         """
        for n in range(9)
    )
    text = f"""{HEAD}{blocks}Because alpha>=9 depends on torch==2.14.0 and torch==2.13.0+cpu, we can conclude that alpha>=9 cannot be used.
         And because we know from (9) that alpha<9 cannot be used, we can conclude that all versions of alpha cannot be used.
         And because you require alpha, {END}

hint: Wheels are required for `alpha`
"""  # noqa: E501
    error = refusal(text)
    assert error.why == (
        "Because alpha>=9 depends on torch==2.14.0 and torch==2.13.0+cpu (r.yaml:58), so alpha>=9 "
        "cannot be used.\n    And because you require alpha (req.txt:1)."
    )
    assert error.what.startswith("no versions fit")
    cut = refusal(f"{HEAD}Because you require alpha and {'x ' * 900}, {END}")
    assert len(str(cut)) < 900


def test_pip_s_words() -> None:
    text = (
        "ERROR: Cannot install -r wishes.txt (line 1) because …\n\nThe conflict is caused by:\n"
        "    The user requested numpy>=2.3\n"
        "    alpha 1.0 depends on numpy<2.3\n"
        "    The user requested (constraint) torch==2.13.0+cpu\n\nTo fix this you could try to:\n"
    )
    assert words.because(text) == [
        "you require numpy>=2.3",
        "alpha 1.0 depends on numpy<2.3",
        "required: torch==2.13.0+cpu",
    ]
    assert "numpy>=2.3 (req.txt:3)" in str(refusal(text))


def test_unknown_names() -> None:
    text = f"{HEAD}Because alpha was not found in the package registry and you require alpha, {END}"
    error = words.unknown([text], PLACES, "req.txt")
    assert isinstance(error, ConfigError)
    assert error.where == "req.txt:1"
    assert error.why is None
    both = words.unknown(
        [text.replace("alpha", "numpi"), text],
        (*PLACES, Place(requirement=Requirement("numpi"), origin="req.txt:9")),
        "req.txt",
    )
    assert str(both).splitlines()[:2] == [
        "req.txt:9: the package index has no numpi, alpha (req.txt:1)",
        "  why: a name near numpi is numpy (req.txt:3)",
    ]
    other = words.unknown([text.replace("Because alpha", "Because delta")], PLACES, "req.txt")
    assert isinstance(other, MisfitError)
    assert "delta, which another package needs" in other.what


@pytest.mark.parametrize(
    ("reason", "what"),
    [
        ("alpha==1.0 has no usable wheels", "alpha: source archives only, no wheel"),
        (
            "all versions of alpha have no wheels with a matching platform tag",
            "alpha: no wheel for Python 3.12 on aarch64 (glibc 2.39)",
        ),
    ],
)
def test_there_is_no_wheel(reason: str, what: str) -> None:
    error = refusal(f"{HEAD}Because {reason} and you require alpha, {END}")
    assert (error.what, error.where, error.exit_code) == (what, "req.txt:1", 8)


def test_nothing_but_pre_releases() -> None:
    hint = "hint: Pre-releases are available for `alpha` in the requested range (try: `--pre`)"
    error = refusal(f"{HEAD}Because there are no versions of alpha and {END}\n\n{hint}")
    assert error.what == "alpha: nothing but pre-releases fits"
    assert "--pre" not in str(error)


def test_other_words_are_a_fault_of_the_resolver() -> None:
    error = refusal("error: unexpected argument '--no-such' found\n" * 9)
    assert isinstance(error, BuildError)
    assert "unexpected argument" in str(error)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            (
                "error: Request failed after 3 retries\n  cause: Failed to fetch: http://h/simple/a/\n"
                "  cause: HTTP status server error (503 Service Unavailable) for url (http://h/a/)"
            ),
            "the package index answers 503 Service Unavailable",
        ),
        (
            (
                "error: …\nhint: An index URL (http://u:pass-word1@h/s) could not be queried "
                "due to a lack of valid authentication credentials (401 Unauthorized)"
            ),
            "the package index answers 401 Unauthorized",
        ),
        (
            "error: …\nhint: An index (http://h/s) returned a 403 Forbidden error. Check",
            "the package index answers 403 Forbidden",
        ),
        (
            "Failed to fetch: http://h:503/s/\n401 Client Error: Unauthorized for url: …",
            "the package index answers 401 Unauthorized",
        ),
        (
            (
                "Failed to fetch: http://h:503/s/\n(Caused by ResponseError('too many 502 error "
                "responses'))"
            ),
            "the package index answers 502 Bad Gateway",
        ),
        (
            (
                "error: Failed to fetch: http://h:503/s/\n  cause: tcp connect error\n"
                "  cause: Connection refused (os error 111)"
            ),
            "cannot reach the package index",
        ),
    ],
)
def test_an_index_that_does_not_answer(text: str, what: str) -> None:
    error = words.index_fault(text)
    assert error is not None
    assert error.what == what
    assert str(error).startswith("http://")
    assert "pass-word1" not in str(error)
    assert len(str(error).splitlines()) <= 6


def test_a_conflict_is_no_fault_of_the_index() -> None:
    assert words.index_fault(f"{HEAD}Because you require alpha and alpha==5, {END}") is None
