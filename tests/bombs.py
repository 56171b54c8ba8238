"""Templates that would take a machine's memory or time; N is how much they want."""

# Of each way that makes much of little, one; `a` is a list of texts, `d` a mapping, `n` a number.
MEMORY = (
    "{{ 'x' * N }}",
    "{{ N * 'x' }}",
    "{{ ['x'] * N }}",
    "{{ ('x',) * N }}",
    "{{ (['x' * 999] * N)|length }}",
    "{{ '%Ns' % 1 }}",
    "{{ '%0*d' % (N, 1) }}",
    "{{ '{:N}'.format(1) }}",
    "{{ '{:N}'.format_map(d) }}",
    "{{ '%Ns'|format(1) }}",
    "{{ 'x'|center(N) }}",
    "{{ 'x'.center(N) }}",
    "{{ 'x'.ljust(N) }}",
    "{{ 'x'.rjust(N) }}",
    "{{ 'x'.zfill(N) }}",
    "{{ '\t'.expandtabs(N) }}",
    "{{ 'x'|indent(N, true) }}",
    "{{ 'x'.encode().ljust(N) }}",
    "{{ (1).to_bytes(N, 'big') }}",
    "{{ d|tojson(N) }}",
    "{{ ['x']|batch(N, 'y')|list }}",
    "{{ ['x']|slice(N, 'y')|list }}",
    "{{ 'x'|wordwrap(1, true, 'y' * N) }}",
    "{{ lipsum(N) }}",
    "{{ range(N)|list }}",
    "{{ range(99999)|map('string')|list }}",
    "{{ range(60000)|map('replace', '1', 'y' * 60000)|list }}",
    "{{ range(60000)|map('upper')|join('y' * 60000) }}",
    "{{ ('x' * 60000)|replace('x', 'y' * 60000) }}",
    "{{ ('x' * 60000)|replace('', 'y' * 60000) }}",
    "{{ ('x' * 60000).replace('x', 'y' * 60000) }}",
    "{{ ('x' * 60000).replace('', 'y' * 60000) }}",
    "{{ ('y' * 60000).join('x' * 60000) }}",
    "{{ (['x'] * 30000)|join('y' * 60000) }}",
    "{{ (['x'] * 30000)|join(d='y' * 60000) }}",
    "{{ 'x'.translate({120: 'y' * N}) }}",
    "{{ 2 ** N }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 1.5|round(N, 'ceil') }}",
    "{% set a = 'xxxx' %}" + "{% set a = a + a %}" * 40 + "{{ a }}",
    "{% set a = 'xxxx' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "{% set a = ['x'] %}" + "{% set a = a + a %}" * 40 + "{{ a|length }}",
    # Little memory, but for who writes them out.
    "{% set a = ['x'] %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}",
    "{% set a = ['x'] %}" + "{% set a = (a, a) %}" * 40 + "{{ a }}",
    "{% set a = ['x'] %}" + "{% set a = {'k': a, 'l': a} %}" * 40 + "{{ a }}",
    "{% set a = 99 %}" + "{% set a = a * a %}" * 60 + "{{ a }}",
    "{% for x in range(9999) %}{{ 'y' * 9999 }}{% endfor %}",
    "{% for x in range(9999) %}" + "y" * 9999 + "{% endfor %}",
    "{% set n = namespace(a='xxxx') %}" + "{% set n.a = n.a + n.a %}" * 40,
    "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 40
    + "x"
    + "{% endcall %}" * 40,
    "{% set a %}{% for x in range(9999) %}{{ 'y' * 60000 }}{% endfor %}{% endset %}",
    "{% filter center(N) %}x{% endfilter %}",
    "{{ ([['x']] * 30000)|sum(start=[]) }}",
    "{{ dict.fromkeys(range(99999), 1) }}",
)
TIME = (
    "{% for x in range(99999) %}{% for y in range(99999) %}{% endfor %}{% endfor %}",
    "{% for x in range(9999) %}" + "{% set b = a|sort %}" * 99 + "{% endfor %}",
    "{% for x in range(9999) %}" + "{% set b = ('y' * 60000).lower() %}" * 999 + "{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(99) }}",
    "{% for x in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "{% for x in [1, 2] %}" * 18 + "x" + "{% endfor %}" * 18,
    "{{ " + "(" * 300 + "1" + ")" * 300 + " }}",
    "{% for x in [1] %}" * 30 + "{% endfor %}" * 30,
)
VALUES: dict[str, object] = {"a": ["x"] * 9999, "d": {"x": 1}, "n": 1}


def sized(text: str, number: int) -> str:
    """Give a template that wants so much."""
    return text.replace("N", str(number))
