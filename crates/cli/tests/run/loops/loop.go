// Waits for a pipe, which the runtime does by epoll and without the C library; "C" makes it load libraries all the same.
package main

import "C"
import (
	"fmt"
	"os"
)

func main() {
	r, _, _ := os.Pipe()
	fmt.Println(os.Getpid())
	r.Read(make([]byte, 1))
}
