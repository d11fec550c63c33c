// One member of a memberlist cluster on loopback, for tests/benchmarks/peers.py, which reads its lines:
// "at HOST:PORT" when it listens, "up NAME" and "down NAME" as it learns about others.
package main

import (
	"flag"
	"fmt"
	"io/ioutil"
	"log"
	"os"
	"time"

	"github.com/hashicorp/memberlist"
)

type printer struct{}

func (printer) NotifyJoin(node *memberlist.Node)   { fmt.Printf("up %s\n", node.Name) }
func (printer) NotifyLeave(node *memberlist.Node)  { fmt.Printf("down %s\n", node.Name) }
func (printer) NotifyUpdate(node *memberlist.Node) {}

func main() {
	config := memberlist.DefaultLANConfig()
	seed := flag.String("seed", "", "address of a member to join")
	flag.StringVar(&config.Name, "name", "", "name of this member")
	flag.DurationVar(&config.ProbeInterval, "interval", config.ProbeInterval, "between two probes")
	flag.DurationVar(&config.ProbeTimeout, "timeout", config.ProbeTimeout, "of a direct probe")
	flag.IntVar(&config.SuspicionMult, "mult", config.SuspicionMult, "of the suspicion timeout")
	flag.IntVar(&config.IndirectChecks, "indirect", config.IndirectChecks, "members asked for an indirect probe")
	flag.Parse()
	config.BindAddr, config.BindPort, config.AdvertisePort = "127.0.0.1", 0, 0
	config.Logger = log.New(ioutil.Discard, "", 0)
	config.Events = printer{}
	list, err := memberlist.Create(config)
	if err != nil {
		fail(err)
	}
	fmt.Printf("at %s\n", list.LocalNode().Address())
	if *seed != "" {
		if _, err := list.Join([]string{*seed}); err != nil {
			fail(err)
		}
	}
	go untilClosed()
	for {
		time.Sleep(time.Hour)
	}
}

// untilClosed ends this process with the one that has started it.
func untilClosed() {
	_, _ = ioutil.ReadAll(os.Stdin)
	os.Exit(0)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
