"""The pipeline that report, check and route have in common: read, bring up, prove, check, predict."""
