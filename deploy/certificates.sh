#!/bin/sh
# Creates an authority and a certificate for each server: `sh deploy/certificates.sh FOLDER NAME…`
#
#   FOLDER/authority/ca.pem       the authority, for clients
#   FOLDER/NAME/certificate.pem   valid for the host names NAME and localhost, for one year
#   FOLDER/NAME/key.pem           the private key of NAME
#
# The script deletes the key of the authority, so no further certificates can be issued. If all certificates are valid for
# another 30 days, the script changes nothing.
set -eu
folder="$1"
shift

is_valid() {
  openssl x509 -in "$1" -noout -checkend 2592000 >/dev/null 2>&1
}

valid=true
for name in "$@"; do
  is_valid "$folder/$name/certificate.pem" || valid=false
done
if $valid && is_valid "$folder/authority/ca.pem"; then
  echo "the certificates in $folder are valid"
  exit 0
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
umask 077
# Elliptic curve P-256, no passphrase.
new_key() {
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

new_key "$work/ca.key"
openssl req -x509 -new -key "$work/ca.key" -days 365 -subj "/CN=onboarding authority" -out "$work/ca.pem" \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
for name in "$@"; do
  new_key "$work/$name.key"
  printf 'subjectAltName=DNS:%s,DNS:localhost\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n' \
    "$name" >"$work/$name.extensions"
  openssl req -new -key "$work/$name.key" -subj "/CN=$name" -out "$work/$name.request"
  openssl x509 -req -in "$work/$name.request" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -days 365 \
    -extfile "$work/$name.extensions" -out "$work/$name.pem"
done

for name in "$@"; do
  mkdir -p "$folder/$name"
  install -m 644 "$work/$name.pem" "$folder/$name/certificate.pem"
  # PostgreSQL accepts a key that belongs to root and that its group can read.
  install -m 640 "$work/$name.key" "$folder/$name/key.pem"
  chmod 755 "$folder/$name"
done
mkdir -p "$folder/authority"
install -m 644 "$work/ca.pem" "$folder/authority/ca.pem"
chmod 755 "$folder/authority"
