#!/bin/sh
# Makes the secrets that compose.yaml names and that can be drawn by chance; those that are there stay.
set -eu
folder=$(dirname "$0")/secrets
mkdir -p "$folder"
chmod 0700 "$folder"

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

keep() {
    [ -e "$folder/$1" ] && return
    printf '%s' "$2" > "$folder/$1"
    # The containers' user 10001 reads it through a mount; nobody else enters the folder.
    chmod 0444 "$folder/$1"
}

keep postgres_password "$(random)"
keep DATABASE_URL "postgresql://kernelsmith:$(cat "$folder/postgres_password")@postgres/kernelsmith"
keep KERNELSMITH_WEBHOOK_SECRETS "$(random)"
keep KERNELSMITH_PAGES_PASSWORD "$(random)"
echo "The webhook's secret, for GitHub: $(cat "$folder/KERNELSMITH_WEBHOOK_SECRETS")"
[ -e "$folder/app.pem" ] || echo "Still missing: the App's private key as $folder/app.pem"
