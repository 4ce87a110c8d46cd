#!/bin/bash
# Hands a run to a cluster as a Ray Job: scripts/cluster/job.sh http://HEAD:8265 CONFIG OUT [OPTION ...]
#
# The folder of the configuration travels as the working directory. The run belongs to the cluster:
# it goes on when this machine is switched off. OUT is the run's directory, on the head, an absolute
# path: Ray removes the working directory when the job ends. paretolab is installed on the head.
# Needs Ray's dashboard on the head and its client here: pip install 'paretolab[cluster]'.
set -euo pipefail

address=${1:?expected the address of the dashboard}
config=${2:?expected a configuration}
out=${3:?expected the directory of the run on the head}
[[ $out == /* ]] || { echo "job.sh: expected an absolute path, found $out" >&2; exit 2; }
shift 3

RAY_ADDRESS=$address ray job submit --working-dir "$(dirname "$config")" -- \
    paretolab run "$(basename "$config")" --address auto --workers all --no-mlflow --out "$out" "$@"
