"""What becomes of files that people bring: they are opened, recognised, checked and written, with a receipt.

Everything that a format need not know is here. The modules follow the way of a file: ``files`` opens it,
``recognition`` finds its format, ``checks`` looks at each record, ``writing`` writes batches of them, and
``running`` does all of that for one import, of which ``receipts`` keeps what became of each record.
"""
