// A message over a reliable connection in Go: cgo calls librdmacm, and its inline functions too.
//
//	CGO_ENABLED=1 go build -o hello-go hello.go
//
// Without an argument it listens on its node's address; with one it connects there and sends.
package main

/*
#cgo LDFLAGS: -lrdmacm -libverbs
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"log"
	"os"
	"time"
	"unsafe"
)

const room = 64

func endpoint(address string, flags C.int) *C.struct_rdma_cm_id {
	node, service := C.CString(address), C.CString("7471")
	defer C.free(unsafe.Pointer(node))
	defer C.free(unsafe.Pointer(service))
	hints := C.struct_rdma_addrinfo{ai_port_space: C.RDMA_PS_TCP, ai_flags: flags}
	var list *C.struct_rdma_addrinfo
	if failed, err := C.rdma_getaddrinfo(node, service, &hints, &list); failed != 0 {
		log.Fatal("rdma_getaddrinfo: ", err)
	}
	defer C.rdma_freeaddrinfo(list)
	var id *C.struct_rdma_cm_id
	qp := C.struct_ibv_qp_init_attr{qp_type: C.IBV_QPT_RC, sq_sig_all: 1}
	qp.cap.max_send_wr, qp.cap.max_recv_wr, qp.cap.max_send_sge, qp.cap.max_recv_sge = 4, 4, 1, 1
	if failed, err := C.rdma_create_ep(&id, list, nil, &qp); failed != 0 {
		log.Fatal("rdma_create_ep: ", err)
	}
	return id
}

func connect(address string) *C.struct_rdma_cm_id {
	for tries := 100; ; tries-- { // until it listens
		id := endpoint(address, 0)
		failed, err := C.rdma_connect(id, nil)
		if failed == 0 {
			return id
		}
		C.rdma_destroy_ep(id)
		if tries == 0 {
			log.Fatal("rdma_connect: ", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func accept(listener *C.struct_rdma_cm_id) *C.struct_rdma_cm_id {
	var id *C.struct_rdma_cm_id
	if failed, err := C.rdma_listen(listener, 1); failed != 0 {
		log.Fatal("rdma_listen: ", err)
	}
	if failed, err := C.rdma_get_request(listener, &id); failed != 0 {
		log.Fatal("rdma_get_request: ", err)
	}
	return id
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("hello-go: ")
	buffer := C.calloc(1, room) // memory that Go's collector does not move
	defer C.free(buffer)
	var wc C.struct_ibv_wc
	if len(os.Args) > 1 {
		id := connect(os.Args[1])
		memory := C.rdma_reg_msgs(id, buffer, room)
		copy(unsafe.Slice((*byte)(buffer), room-1), "hello from Go on "+os.Getenv("SOFTIB_PLACE"))
		if failed, err := C.rdma_post_send(id, nil, buffer, room, memory, 0); failed != 0 {
			log.Fatal("rdma_post_send: ", err)
		}
		if C.rdma_get_send_comp(id, &wc) < 1 || wc.status != C.IBV_WC_SUCCESS {
			log.Fatal("send: ", C.GoString(C.ibv_wc_status_str(wc.status)))
		}
		C.rdma_disconnect(id)
		return
	}
	id := accept(endpoint(os.Getenv("SOFTIB_ADDRESS"), C.RAI_PASSIVE))
	memory := C.rdma_reg_msgs(id, buffer, room)
	if failed, err := C.rdma_post_recv(id, nil, buffer, room, memory); failed != 0 {
		log.Fatal("rdma_post_recv: ", err)
	}
	if failed, err := C.rdma_accept(id, nil); failed != 0 {
		log.Fatal("rdma_accept: ", err)
	}
	if C.rdma_get_recv_comp(id, &wc) < 1 || wc.status != C.IBV_WC_SUCCESS {
		log.Fatal("receive: ", C.GoString(C.ibv_wc_status_str(wc.status)))
	}
	fmt.Println(C.GoString((*C.char)(buffer)))
	C.rdma_disconnect(id)
}
