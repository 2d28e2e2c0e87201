"""AddressSanitizer and UndefinedBehaviourSanitizer for programs and libraries of ours."""

SANITIZE = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-O1",
    "-Wno-format-truncation",
)
"""Without the warning that instrumented code gives where the plain one does not."""
