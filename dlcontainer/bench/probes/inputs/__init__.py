"""What `bench input` asks for, lends and says: its options, its folders, the supply by tier."""
