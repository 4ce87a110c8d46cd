"""Read files that strangers may have made without running code from them.

Each file is checked before objects are made from it: its size, packed and unpacked, its depth, its
types, and the numbers that compiled code uses as indices. A damaged or forged file ends in an
:class:`~framework.errors.InputError`. Other packages import the names below, and no module of this
package:

- :mod:`~framework.security.limits`: how much is read of any input;
- :mod:`~framework.security.documents`: JSON, and the sizes in a configuration;
- :mod:`~framework.security.compressed`: gzip, zip, Parquet's pages and numpy's formats, without
  pickles;
- :mod:`~framework.security.skops_files`: fitted estimators, by a fixed list of types
  (:mod:`~framework.security.allowed_types`) and by checks of what compiled code does not check
  (:mod:`~framework.security.compiled` before an object is made,
  :mod:`~framework.security.fitted` before it predicts);
- :mod:`~framework.security.uris`: addresses, read by one grammar, without passwords;
- :mod:`~framework.security.servers`: limits for MLflow's client;
- :mod:`framework.reading`: the one way in which files are opened;
- :mod:`~framework.security.policy`: what a file may do beyond being read, and what the user granted
  (:mod:`~framework.security.grants`);
- :mod:`~framework.security.escaping`: names that stay text wherever they are written.

It imports only the root of the framework. ``docs/security.md`` says what each check prevents.
"""

from framework.reading import (
    TooManyBytes,
    check_no_links,
    digest_of,
    open_regular,
    read_bytes,
    read_text,
)
from framework.security.allowed_types import trust, trusted, trusted_types
from framework.security.compressed import (
    Chunk,
    TooLarge,
    array_of,
    arrays_of,
    check_members,
    check_pages,
    gunzipped,
    mapped,
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
from framework.security.escaping import csv_text_value, line_text, markdown_text, say, terminal_text
from framework.security.grants import forget, is_trusted, listed
from framework.security.limits import (
    CONFIG_BYTES,
    CONFIG_TEXT,
    CONFIG_VALUES,
    ESTIMATOR_BYTES,
    JSON_BYTES,
    JSON_DEPTH,
    TABLE_BYTES,
    TABLE_CELLS,
    UNPACKED_BYTES,
)
from framework.security.policy import (
    CLUSTER_VARIABLE,
    DATA_VARIABLE,
    NO_CREDENTIALS,
    Received,
    allowing,
    ask_now,
    check_address,
    check_working_folder,
    environment_for,
    from_program,
    is_allowed,
    is_at_home,
    is_cluster_trusted,
    keep,
    note_address,
    note_configuration,
    parse_grant,
    received,
    text_of,
    trust_cluster,
    trust_files,
    without_tokens,
)
from framework.security.servers import guard_mlflow
from framework.security.skops_files import dump_estimator, load_estimator
from framework.security.uris import (
    STORAGE,
    TRACKING,
    Address,
    address_of,
    expanded,
    is_loopback,
    public_uri,
    redacted,
    sqlite_uri,
    without_password,
)

__all__ = [
    "CLUSTER_VARIABLE",
    "CONFIG_BYTES",
    "CONFIG_TEXT",
    "CONFIG_VALUES",
    "DATA_VARIABLE",
    "ESTIMATOR_BYTES",
    "JSON_BYTES",
    "JSON_DEPTH",
    "NO_CREDENTIALS",
    "STORAGE",
    "TABLE_BYTES",
    "TABLE_CELLS",
    "TRACKING",
    "UNPACKED_BYTES",
    "Address",
    "Chunk",
    "Received",
    "TooLarge",
    "TooManyBytes",
    "address_of",
    "allowing",
    "array_of",
    "arrays_of",
    "ask_now",
    "check_address",
    "check_members",
    "check_no_links",
    "check_pages",
    "check_sizes",
    "check_tree",
    "check_working_folder",
    "csv_text_value",
    "digest_of",
    "dump_estimator",
    "environment_for",
    "expanded",
    "forget",
    "from_program",
    "guard_mlflow",
    "gunzipped",
    "is_allowed",
    "is_at_home",
    "is_cluster_trusted",
    "is_loopback",
    "is_trusted",
    "keep",
    "line_text",
    "listed",
    "load_estimator",
    "mapped",
    "markdown_text",
    "member",
    "most_unpacked",
    "note_address",
    "note_configuration",
    "open_regular",
    "parse_grant",
    "parse_json",
    "public_uri",
    "read_bytes",
    "read_json",
    "read_object",
    "read_text",
    "received",
    "redacted",
    "say",
    "sqlite_uri",
    "terminal_text",
    "text_of",
    "trust",
    "trust_cluster",
    "trust_files",
    "trusted",
    "trusted_types",
    "without_password",
    "without_tokens",
]
