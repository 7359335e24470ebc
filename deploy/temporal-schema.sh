#!/bin/sh
# Create Temporal's two databases, or bring them up to date. Harmless when they are already there.
# Runs once in the admin-tools image before the server starts; SQL_PASSWORD is read by temporal-sql-tool itself.
set -eu

schema=/etc/temporal/schema/postgresql/v12

tool() {
    database=$1
    shift
    temporal-sql-tool --plugin postgres12 --endpoint "$SQL_HOST" --port "${SQL_PORT:-5432}" --user "$SQL_USER" \
        --database "$database" "$@"
}

prepare() {
    tool "$1" create-database
    tool "$1" setup-schema --version 0.0
    tool "$1" update-schema --schema-dir "$schema/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
