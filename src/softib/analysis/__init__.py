"""The common pipeline of report, check and route: read, bring up, prove, check, predict."""
