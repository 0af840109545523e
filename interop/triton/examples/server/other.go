//go:build !linux

// Command server is for Linux, where the server runs.
package main

func main() { println("this program is for Linux, where the server runs") }
