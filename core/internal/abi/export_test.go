package abi

// Layout gives the tests outside of the package the facts, by their C expression.
func Layout() map[string]int64 {
	layout := make(map[string]int64)
	for _, f := range facts() {
		layout[f.c] = int64(f.here)
	}
	return layout
}
