// Command offer offers the tensors of a file to examples/machines/fetch on other machines.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dlx-go/dlx/remote"
	"github.com/dlx-go/dlx/tensorfile"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: offer ADDRESS TOKEN-FILE FILE")
	}
	token, err := os.ReadFile(os.Args[2])
	check(err)
	listener, err := remote.Listen(os.Args[1], remote.Options{Token: bytes.TrimSpace(token)})
	check(err)
	defer listener.Close()
	model, err := tensorfile.Open(os.Args[3], tensorfile.OpenOptions{})
	check(err)
	for _, info := range model.Tensors() {
		t, err := model.Tensor(info.Name)
		check(err)
		_, err = listener.Offer(t, remote.OfferOptions{Name: info.Name})
		check(err)
		check(t.Close()) // the offer keeps the memory
	}
	fmt.Println("offering at", listener.Addr())
	for {
		conn, err := listener.Accept(context.Background())
		check(err)
		go func() { <-conn.Done(); check(conn.Close()) }()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
