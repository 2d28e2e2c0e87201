"""The steps that report, check and route have in common: read a fabric, bring it up, prove its tables, check it,
predict traffic."""
