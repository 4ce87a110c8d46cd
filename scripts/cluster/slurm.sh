#!/bin/bash
# A run on the nodes that SLURM gives: sbatch scripts/cluster/slurm.sh CONFIG [OPTION ...]
#
# The first node keeps the search and works, too; the others join it. A job that is taken away and
# queued again goes on with its run. Set PARETOLAB_OUT to a directory that all nodes see.
#SBATCH --job-name=paretolab
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=12:00:00
#SBATCH --requeue
set -euo pipefail

config=${1:?expected a configuration}
shift
out=${PARETOLAB_OUT:-$PWD/runs/slurm-$SLURM_JOB_ID}
cpus=${SLURM_CPUS_PER_TASK:-1}
port=$((20000 + SLURM_JOB_ID % 20000)) # jobs that share a node do not meet
room=$(mktemp -d "${TMPDIR:-/tmp}/ray.XXXXXX")
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$token RAY_USAGE_STATS_ENABLED=0

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}

cleanup() {
    kill "${steps[@]}" 2>/dev/null || true
    wait "${steps[@]}" 2>/dev/null || true
    rm -rf "$room"
}
steps=()
trap cleanup EXIT

srun --nodes=1 --ntasks=1 --overlap --nodelist="$head" \
    ray start --head --block --port="$port" --num-cpus="$cpus" --temp-dir="$room" \
    --include-dashboard=false &
steps+=($!)

for _ in $(seq 60); do # until the head answers
    ray health-check --address "$head:$port" >/dev/null 2>&1 && break
    sleep 2
done

if ((${#nodes[@]} > 1)); then
    others=$(IFS=,; echo "${nodes[*]:1}")
    srun --nodes=$((${#nodes[@]} - 1)) --ntasks=$((${#nodes[@]} - 1)) --overlap \
        --nodelist="$others" \
        ray start --address="$head:$port" --block --num-cpus="$cpus" &
    steps+=($!)
fi

# all workers are requested, even if nodes come late or go
workers=$((${#nodes[@]} * cpus))
if [ -f "$out/config.yaml" ]; then
    paretolab resume "$out" --address "$head:$port" --workers "$workers" "$@"
else
    paretolab run "$config" --out "$out" --address "$head:$port" --workers "$workers" "$@"
fi
