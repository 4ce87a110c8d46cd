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

from framework.reading import TooManyBytes as TooManyBytes
from framework.reading import check_inside as check_inside
from framework.reading import check_no_links as check_no_links
from framework.reading import digest_of as digest_of
from framework.reading import open_regular as open_regular
from framework.reading import read_bytes as read_bytes
from framework.reading import read_text as read_text
from framework.security.allowed_types import trust as trust
from framework.security.allowed_types import trusted as trusted
from framework.security.allowed_types import trusted_types as trusted_types
from framework.security.compressed import BAD_ARRAYS as BAD_ARRAYS
from framework.security.compressed import Chunk as Chunk
from framework.security.compressed import TooLarge as TooLarge
from framework.security.compressed import array_of as array_of
from framework.security.compressed import arrays_of as arrays_of
from framework.security.compressed import check_members as check_members
from framework.security.compressed import check_pages as check_pages
from framework.security.compressed import gunzipped as gunzipped
from framework.security.compressed import mapped as mapped
from framework.security.compressed import member as member
from framework.security.compressed import most_unpacked as most_unpacked
from framework.security.documents import check_sizes as check_sizes
from framework.security.documents import check_tree as check_tree
from framework.security.documents import parse_json as parse_json
from framework.security.documents import read_json as read_json
from framework.security.documents import read_object as read_object
from framework.security.escaping import csv_text_value as csv_text_value
from framework.security.escaping import line_text as line_text
from framework.security.escaping import markdown_text as markdown_text
from framework.security.escaping import say as say
from framework.security.escaping import terminal_text as terminal_text
from framework.security.grants import forget as forget
from framework.security.grants import is_trusted as is_trusted
from framework.security.grants import listed as listed
from framework.security.limits import CASES as CASES
from framework.security.limits import CONFIG_BYTES as CONFIG_BYTES
from framework.security.limits import CONFIG_TEXT as CONFIG_TEXT
from framework.security.limits import CONFIG_VALUES as CONFIG_VALUES
from framework.security.limits import ESTIMATOR_BYTES as ESTIMATOR_BYTES
from framework.security.limits import JSON_BYTES as JSON_BYTES
from framework.security.limits import JSON_DEPTH as JSON_DEPTH
from framework.security.limits import TABLE_BYTES as TABLE_BYTES
from framework.security.limits import TABLE_CELLS as TABLE_CELLS
from framework.security.limits import UNPACKED_BYTES as UNPACKED_BYTES
from framework.security.policy import CLUSTER_VARIABLE as CLUSTER_VARIABLE
from framework.security.policy import DATA_VARIABLE as DATA_VARIABLE
from framework.security.policy import NO_CREDENTIALS as NO_CREDENTIALS
from framework.security.policy import Received as Received
from framework.security.policy import allowing as allowing
from framework.security.policy import ask_now as ask_now
from framework.security.policy import check_address as check_address
from framework.security.policy import check_working_folder as check_working_folder
from framework.security.policy import environment_for as environment_for
from framework.security.policy import from_program as from_program
from framework.security.policy import is_allowed as is_allowed
from framework.security.policy import is_at_home as is_at_home
from framework.security.policy import is_cluster_trusted as is_cluster_trusted
from framework.security.policy import keep as keep
from framework.security.policy import note_address as note_address
from framework.security.policy import note_configuration as note_configuration
from framework.security.policy import parse_grant as parse_grant
from framework.security.policy import received as received
from framework.security.policy import text_of as text_of
from framework.security.policy import trust_cluster as trust_cluster
from framework.security.policy import trust_files as trust_files
from framework.security.policy import without_tokens as without_tokens
from framework.security.servers import guard_mlflow as guard_mlflow
from framework.security.skops_files import dump_estimator as dump_estimator
from framework.security.skops_files import load_estimator as load_estimator
from framework.security.uris import STORAGE as STORAGE
from framework.security.uris import TRACKING as TRACKING
from framework.security.uris import Address as Address
from framework.security.uris import address_of as address_of
from framework.security.uris import expanded as expanded
from framework.security.uris import is_loopback as is_loopback
from framework.security.uris import public_uri as public_uri
from framework.security.uris import redacted as redacted
from framework.security.uris import sqlite_uri as sqlite_uri
from framework.security.uris import without_password as without_password
