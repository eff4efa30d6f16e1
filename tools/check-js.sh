#!/bin/sh
# The pages' JavaScript: lint, types (tsc --checkJs) and unit tests (node --test). They need no build, only these checks
# do: their packages go into a cache folder. Without node or npm they are skipped.
set -e
cd "$(dirname "$0")/.."
command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || {
    echo "node and npm are not here: the page's JavaScript is not checked" >&2
    exit 0
}
cache="${XDG_CACHE_HOME:-$HOME/.cache}/unseen-js"
mkdir -p "$cache"
if ! cmp -s tests/js/package.json "$cache/package.json"; then
    cp tests/js/package.json "$cache/package.json.new"
    mv "$cache/package.json.new" "$cache/package.json"
    npm install --prefix "$cache" --silent --no-audit --no-fund --no-package-lock || {
        rm "$cache/package.json"
        echo "npm could not install what checks the page's JavaScript: only its unit tests run" >&2
    }
fi
if [ -d "$cache/node_modules/typescript" ]; then
    "$cache/node_modules/.bin/oxlint" --quiet -c tests/js/oxlint.json \
        src/unseen/apps/web/static/*.js src/unseen/export/page/*.js tests/js/*.js
    "$cache/node_modules/.bin/tsc" -p tests/js/tsconfig.json
fi
node --test tests/js/
