"""The pipeline that report, check and route share: read, bring up, prove, check, predict."""
