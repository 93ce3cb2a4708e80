"""Baton on fabrics of several tiers with mixed rates and redundant links: `baton bench fabrics`.

Real traffic of several kinds under each policy, beside what max-min fairness would give each flow.
"""
