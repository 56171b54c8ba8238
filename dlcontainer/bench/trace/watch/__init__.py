"""What the processes of a traced job used and waited for, by looks at them from outside."""
