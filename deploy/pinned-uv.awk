# Prints uv, at the version and with the hashes of uv.lock, as a requirement for `pip install --require-hashes`.
/^\[\[package\]\]/ { inside = 0 }
/^name = "uv"$/ { inside = 1 }
inside && /^version = / { gsub(/"/, "", $3); printf "uv==%s", $3 }
inside {
    while (match($0, /sha256:[0-9a-f]+/)) {
        printf " --hash=%s", substr($0, RSTART, RLENGTH)
        $0 = substr($0, RSTART + RLENGTH)
    }
}
END { print "" }
