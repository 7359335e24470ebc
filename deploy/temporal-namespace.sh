#!/bin/sh
# Create the namespace that sessions live in and its search attributes, if they are not there. Runs once in the admin-tools image, when the server's port is open.
# The port opens before the server is ready, so it is asked again for up to two minutes.
set -eu

: "${TEMPORAL_ADDRESS:?}" "${TEMPORAL_NAMESPACE:?}" "${RETENTION:?}"

attempts=60
while ! temporal operator cluster health >/dev/null 2>&1; do
    attempts=$((attempts - 1))
    if [ "$attempts" -eq 0 ]; then
        echo "Temporal at $TEMPORAL_ADDRESS did not become healthy within two minutes." >&2
        exit 1
    fi
    sleep 2
done

if temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
    echo "Namespace $TEMPORAL_NAMESPACE is there."
else
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
fi

# Those that exist are left as they are. A new namespace takes some seconds until it has them.
attempts=30
until temporal operator search-attribute create --namespace "$TEMPORAL_NAMESPACE" \
    --name ChargehandState --type Keyword \
    --name ChargehandCrew --type Keyword \
    --name ChargehandTenant --type Keyword \
    --name ChargehandThread --type Keyword \
    --name ChargehandStopReason --type Keyword \
    --name ChargehandDollars --type Double \
    --name ChargehandTurns --type Int; do
    attempts=$((attempts - 1))
    if [ "$attempts" -eq 0 ]; then
        echo "The search attributes of sessions could not be registered; sessions run without them." >&2
        exit 0
    fi
    sleep 2
done
