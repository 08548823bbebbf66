#!/bin/sh
# Gives the program every secret that lies in a file named like a variable, such as /run/secrets/KERNELSMITH_TOKEN.
set -eu
for file in "${SECRETS_FOLDER:-/run/secrets}"/*; do
    name=${file##*/}
    case $name in
        KERNELSMITH_*|DATABASE_URL|REDIS_URL)
            value=$(cat "$file")
            export "$name=$value"
            ;;
    esac
done
exec "$@"
