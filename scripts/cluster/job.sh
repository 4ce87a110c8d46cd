#!/bin/bash
# Hands a run to a cluster as a Ray Job: scripts/cluster/job.sh http://HEAD:8265 CONFIG [OPTION ...]
#
# The folder of the configuration travels as the working directory. The run belongs to the cluster:
# it goes on when this machine is switched off. Its directory is on the head, in /tmp or in --out.
# Needs Ray's dashboard on the head and its client here: pip install 'paretolab[cluster]'.
set -euo pipefail

address=${1:?expected the address of the dashboard}
config=${2:?expected a configuration}
shift 2

RAY_ADDRESS=$address ray job submit --working-dir "$(dirname "$config")" -- \
    paretolab run "$(basename "$config")" --address auto --workers all --no-mlflow "$@"
