// Preloaded where no library may be unloaded: under the address sanitizer, where a driver's leaks are suppressed by
// the name of its library, which is lost when the library is unloaded, and for a driver that leaks when it is.
int dlclose(void *handle) {
	(void)handle;
	return 0;
}
