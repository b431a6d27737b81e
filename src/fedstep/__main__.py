"""`python -m fedstep`."""

from fedstep.cli import main

raise SystemExit(main())
