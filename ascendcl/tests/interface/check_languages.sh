#!/bin/sh
# Every acl header compiles alone, as C99 and as C++11, without a warning.
# usage: check_languages.sh <C compiler> <C++ compiler> <include folder>
set -u
cc=$1 cxx=$2 include=$3
failed=0 count=0
for header in $(cd "$include" && find acl -name '*.h' | sort); do
    # The declaration keeps the translation unit from being empty, which strict C forbids.
    source=$(printf '#include "%s"\nextern int unused;\n' "$header")
    for visibility in -UFUNC_VISIBILITY -DFUNC_VISIBILITY; do
        echo "$source" | "$cc" -x c -std=c99 -pedantic -Wall -Wextra -Werror "$visibility" \
            -fsyntax-only -I "$include" - || { echo "$header is not clean C99"; failed=1; }
        echo "$source" | "$cxx" -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror "$visibility" \
            -fsyntax-only -I "$include" - || { echo "$header is not clean C++11"; failed=1; }
    done
    count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no headers in $include/acl"; failed=1; }
echo "$count headers"
exit $failed
