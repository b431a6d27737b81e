"""`python -m fedstep.cli`."""

from fedstep.cli import main

raise SystemExit(main())
