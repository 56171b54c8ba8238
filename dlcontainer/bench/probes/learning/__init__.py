"""What trainings came to, from the outcomes of rows: the table and the charts of a report."""
