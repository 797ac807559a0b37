#!/bin/sh
# Creates the secrets of `compose.yaml` in `deploy/secrets/`, one file for each: `sh deploy/secrets.sh`
#
# Existing files are kept. `api-key` is the key of the caller `ada`; the server gets only its hash.
set -eu
folder="$(dirname "$0")/secrets"
mkdir -p "$folder"
# Only the owner can enter the folder. Compose mounts each file as it is, and the users in the containers must be able to
# read it.
chmod 700 "$folder"
cd "$folder"
umask 022

[ -s api-key ] || openssl rand -hex 32 >api-key
[ -s api-keys ] || printf 'ada=%s\n' "$(tr -d '\n' <api-key | openssl dgst -sha256 -r | cut -d ' ' -f 1)" >api-keys
[ -s seal-keys ] || printf '1=%s\n' "$(openssl rand -hex 32)" >seal-keys
[ -s postgres-password ] || openssl rand -hex 16 >postgres-password
# Three replicas, and one more while a replica is replaced, use 4 × (16 + 1) = 68 connections.
[ -s store-url ] || printf 'postgres://antiphon:%s@postgres/antiphon?sslmode=%s&sslrootcert=%s&max_connections=16\n' \
  "$(cat postgres-password)" verify-full /authority/ca.pem >store-url
