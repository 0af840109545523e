// Preloaded under the address sanitizer, so that no library is unloaded. A driver's leaks are suppressed by the
// name of its library, which is lost when the library is unloaded.
int dlclose(void *handle) {
	(void)handle;
	return 0;
}
