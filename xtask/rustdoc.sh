#!/bin/sh
# Used as `RUSTDOC` of `cargo test --doc` by `cargo xtask verify`: writes the documentation instead of running its
# examples. `cargo doc` would check all dependencies again, because it cannot use what the tests have built.
set -eu
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  case "$argument" in
    --test) ;;
    --test-args | --test-run-directory)
      shift
      count=$((count - 1))
      ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec rustdoc "$@" -D warnings --out-dir "$ANTIPHON_DOC_DIR"
