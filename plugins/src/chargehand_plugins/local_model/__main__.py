import sys

from chargehand_plugins.local_model.program import main

main(sys.argv[1:])
