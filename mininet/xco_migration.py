"""A bulk transfer, like a live migration, beside 1 to 4 senders (XCo, Figure 19).

    sudo .venv/bin/python mininet/xco_migration.py --virtual --rate 1gbit --plot migration.png
    sudo .venv/bin/python mininet/xco_migration.py --prompt

The options are those of `baton bench xco`; bench/xco/migration.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("migration")
