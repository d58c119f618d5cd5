package sqlitestore

const childJob = "SQLITESTORE_TEST_CHILD"

func runChild(string) int { return 2 }
