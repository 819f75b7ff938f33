# To be sourced by the scripts beside it: a cluster of the script's own, of this machine.

# begin_cluster HANNO DIRECTORY [OPTION…]: starts a cluster with its data in DIRECTORY/cluster and what it says in DIRECTORY/ready and
# DIRECTORY/errors, waits until it is ready, and exports its addresses. Its process is $cluster.
begin_cluster() {
    local hanno=$1 directory=$2; shift 2
    "$hanno" cluster --data "$directory/cluster" "$@" >"$directory/ready" 2>"$directory/errors" &
    cluster=$!
    until grep -q '^ready ' "$directory/ready"; do
        kill -0 "$cluster" 2>/dev/null || { cat "$directory/errors"; exit 1; }
        sleep 0.05
    done
    HANNO_NAMENODE=$(sed 's/.*namenode=\([^ ]*\).*/\1/' "$directory/ready")
    HANNO_JOBTRACKER=$(sed 's/.*jobtracker=\([^ ]*\).*/\1/' "$directory/ready")
    export HANNO_NAMENODE HANNO_JOBTRACKER
}

end_cluster() {
    [ -n "${cluster:-}" ] || return 0
    kill "$cluster" 2>/dev/null || true
    wait "$cluster" 2>/dev/null || true
}
