#!/usr/bin/env bash
# Submits a plan as an array of N parts, and a job that joins them.
#
#   deploy/slurm/submit.sh PLAN N FOLDER OUT [--json]
#
# Further options of sbatch are taken from the environment (SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT). Prints the numbers of
# both jobs. After a loss the same command again runs what is missing.
set -euo pipefail
[ $# -ge 4 ] || { echo "usage: $0 PLAN N FOLDER OUT [--json]" >&2; exit 2; }
here=$(dirname "$0") plan=$1 shards=$2 folder=$3
shift 3

array=$(sbatch --parsable --array="1-$shards" "$here/shards.sbatch" "$plan" "$shards" "$folder")
# Of a federation the cluster stands behind the number.
merge=$(sbatch --parsable --dependency="afterany:${array%%;*}" "$here/merge.sbatch" "$folder" "$@")
echo "array ${array%%;*}, merge ${merge%%;*}"
