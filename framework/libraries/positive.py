"""Which of a library's two classes is the positive one."""

from __future__ import annotations

from typing import Any

from framework.errors import InputError
from framework.libraries.config import LibrarySection
from framework.libraries.library import Library
from framework.registry import nearest


def positive_label(section: LibrarySection, library: Library, own: Any) -> Any:
    """Return the label a problem calls positive: its own, else that of the data set to build of."""
    if own is None and section.build is not None and len(library.classes or ()) == 2:
        return section.build.dataset.positive
    return own


def positive_code(library: Library, label: Any) -> int:
    """Return the position of the positive class; the second one if no label is given.

    Raises
    ------
    InputError
        The library has not two classes, or none with this label.
    """
    if label is None:
        return 1
    labels = [str(known) for known in library.classes or ()]
    if len(labels) != 2:
        raise InputError(
            f"problem.positive: expected a library of two classes, found {len(labels)} in "
            f"{library.name}; leave it out"
        )
    if str(label) not in labels:
        raise InputError(
            f"problem.positive: expected one of the classes "
            f"{', '.join(map(repr, library.classes or ()))}, found {label!r}"
            f"{nearest(str(label), labels)}"
        )
    return labels.index(str(label))
