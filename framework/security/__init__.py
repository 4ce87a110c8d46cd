"""Read what strangers may have made, and run none of it: the one door to files from elsewhere.

Each file is checked before anything is made of it: its size, packed and unpacked, its depth, its
types, and the numbers that compiled code follows. What is damaged or forged ends in one
:class:`~framework.errors.InputError`. Other packages import the names below and no module in here:

- :mod:`~framework.security.limits`: how much of anything is taken;
- :mod:`~framework.security.documents`: JSON, and the sizes in a configuration;
- :mod:`~framework.security.compressed`: gzip, zip and numpy's formats, without pickles;
- :mod:`~framework.security.skops_files`: fitted estimators, by a fixed list of types
  (:mod:`~framework.security.allowed_types`) and by what compiled code takes on trust
  (:mod:`~framework.security.compiled` before an object is made,
  :mod:`~framework.security.fitted` before it is asked);
- :mod:`~framework.security.uris`: addresses whose passwords stay in the environment.

It imports the root of the framework alone. ``docs/security.md`` says what each check is against.
"""

from framework.security.allowed_types import trust, trusted, trusted_types
from framework.security.compressed import (
    TooLarge,
    array_of,
    arrays_of,
    check_members,
    gunzipped,
    member,
    most_unpacked,
)
from framework.security.documents import (
    check_sizes,
    check_tree,
    parse_json,
    read_json,
    read_object,
)
from framework.security.limits import (
    CONFIG_BYTES,
    CONFIG_VALUES,
    ESTIMATOR_BYTES,
    JSON_BYTES,
    JSON_DEPTH,
    TABLE_BYTES,
    TABLE_CELLS,
    UNPACKED_BYTES,
)
from framework.security.skops_files import dump_estimator, load_estimator
from framework.security.uris import expanded, public_uri, redacted, without_password

__all__ = [
    "CONFIG_BYTES",
    "CONFIG_VALUES",
    "ESTIMATOR_BYTES",
    "JSON_BYTES",
    "JSON_DEPTH",
    "TABLE_BYTES",
    "TABLE_CELLS",
    "UNPACKED_BYTES",
    "TooLarge",
    "array_of",
    "arrays_of",
    "check_members",
    "check_sizes",
    "check_tree",
    "dump_estimator",
    "expanded",
    "gunzipped",
    "load_estimator",
    "member",
    "most_unpacked",
    "parse_json",
    "public_uri",
    "read_json",
    "read_object",
    "redacted",
    "trust",
    "trusted",
    "trusted_types",
    "without_password",
]
