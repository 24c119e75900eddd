# Sourced by the scripts that need the C programs of EPICS and open62541, in the folder bench/peers: they set `target`
# and `bin`, the folders of what is installed and of the programs, and create `bin`.

# missing SYSTEM REASON
missing() {
    printf '%s\t%s\n' "$1" "$2" >> "$target/missing.new"
    printf 'not installed: %s: %s\n' "$1" "$2" >&2
}

# The Python packages bring the libraries of EPICS and their headers.
install_epics_ca() {
    venv=$target/venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install -q epicscorelibs pvxslibs
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    epics=$site/epicscorelibs
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$venv/bin/python" > "$bin/python"
    chmod +x "$bin/python"
    cc -O2 -Wall -o "$bin/ca" c/ca.c -I"$epics/include" -I"$epics/include/os/Linux" \
        -I"$epics/include/compiler/gcc" -L"$epics/lib" -lca -lCom -Wl,-rpath,"$epics/lib" -lm ||
        missing epics-ca 'it could not be built with the Python package epicscorelibs'
}

# open62541 has no Debian package in every release: its sources are those of a crate.
install_open62541() {
    opcua=$target/open62541
    if [ ! -f "$opcua/lib/libopen62541.a" ]; then
        sources=$(cd c/open62541 && cargo vendor --locked --versioned-dirs "$target/vendor" > /dev/null &&
            ls -d "$target"/vendor/open62541-sys-*/open62541)
        if [ -d "$sources" ]; then
            cmake -S "$sources" -B "$target/open62541-build" -DCMAKE_BUILD_TYPE=Release \
                -DBUILD_SHARED_LIBS=OFF -DUA_LOGLEVEL=601 -DUA_ENABLE_NODESET_INJECTOR=OFF \
                -DUA_MULTITHREADING=0 -DCMAKE_INSTALL_PREFIX="$opcua" -DCMAKE_INSTALL_LIBDIR=lib &&
                cmake --build "$target/open62541-build" -j "$(nproc)" &&
                cmake --install "$target/open62541-build" > /dev/null
        fi
    fi
    if cc -O2 -Wall -I"$opcua/include" -o "$bin/opcua" c/opcua.c "$opcua/lib/libopen62541.a" -lpthread -lm; then :; else
        missing open62541 'it could not be built from the sources in the crate open62541-sys'
    fi
}
