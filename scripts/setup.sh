#!/usr/bin/env bash
# Sourced by ./hoptime and ./test: installs npm packages and builds what is missing or outdated. Prints only on stderr.
set -euo pipefail
HOPTIME_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

need_node() {
  if ! command -v node >/dev/null 2>&1; then
    echo "hoptime: Node.js >= 20.19 is needed (https://nodejs.org, or: apt-get install nodejs npm)" >&2
    exit 2
  fi
}

install_packages() {
  if [ ! -e "$HOPTIME_ROOT/node_modules/.hoptime-installed" ] || [ "$HOPTIME_ROOT/package.json" -nt "$HOPTIME_ROOT/node_modules/.hoptime-installed" ]; then
    echo "hoptime: installing npm packages (once)" >&2
    (cd "$HOPTIME_ROOT" && npm install --loglevel=error --no-audit --no-fund --no-save >&2)
    touch "$HOPTIME_ROOT/node_modules/.hoptime-installed"
  fi
}

build_product() {
  local stamp="$HOPTIME_ROOT/dist/.built"
  if [ ! -e "$stamp" ] || [ -n "$(find "$HOPTIME_ROOT/src" "$HOPTIME_ROOT/kernels" "$HOPTIME_ROOT/datapath" "$HOPTIME_ROOT/web" "$HOPTIME_ROOT/package.json" "$HOPTIME_ROOT/scripts/build.mjs" -newer "$stamp" -type f -print -quit 2>/dev/null)" ]; then
    echo "hoptime: building" >&2
    (cd "$HOPTIME_ROOT" && rm -rf dist && node scripts/build.mjs >&2)
    touch "$stamp"
  fi
}

# Installs system packages, only for the tests and only as root with apt. PROGRAM:PACKAGE, or /PATH:PACKAGE.
system_packages() {
  local missing=() pair
  for pair in "$@"; do
    case "$pair" in
      /*) [ -e "${pair%%:*}" ] || missing+=("${pair##*:}") ;;
      *) command -v "${pair%%:*}" >/dev/null 2>&1 || missing+=("${pair##*:}") ;;
    esac
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "hoptime: installing ${missing[*]} with apt" >&2
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >&2 2>&1 ||
      echo "hoptime: apt could not install ${missing[*]}; the suites that need them are skipped" >&2
  else
    echo "hoptime: no root or no apt: without ${missing[*]} the suites that need them are skipped" >&2
  fi
}
