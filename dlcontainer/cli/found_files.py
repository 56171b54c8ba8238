"""What a list of sites or recipes says of files that a name does not lead to."""

from typing import TYPE_CHECKING

from dlcontainer.cli import output

if TYPE_CHECKING:
    from dlcontainer.config.resources import Kind, ResourceFolders

# As ResourceFolders.origin says it.
SHIPPED = "shipped"


def hidden(resources: "ResourceFolders", kind: "Kind") -> list[dict[str, str]]:
    """Return those that a folder before their own hides, for JSON."""
    return [
        {"name": resource.name, "file": str(resource.path), "by": str(resource.by)}
        for resource in resources.hidden(kind)
    ]


def say_hidden(resources: "ResourceFolders", kind: "Kind", only: str | None = None) -> None:
    """Name them, or only those of one name, each with the file that is taken."""
    for resource in resources.hidden(kind):
        if only not in (None, resource.name):
            continue
        hidden_file = resources.display(resource.path)
        output.complain(f"note: {resource.name}: {resource.by} is taken, {hidden_file} is not")
