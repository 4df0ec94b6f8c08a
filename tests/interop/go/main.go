// Interop drives Apache's Go client the way its users do. A sub-command is one client; requests come in as lines of
// tab-separated fields, and everything that happens goes out as one line of JSON. It ends with its standard input.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// fields are what an event says beside its kind.
type fields map[string]interface{}

// options are the flags of all sub-commands.
type options struct {
	namesrv, group, instance, namespace string
	accessKey, secretKey                string
	topic, expression, mode             string
	selector                            string
	isSQL, isTraced, isFromLast         bool
	mostRetries                         int
}

var output sync.Mutex

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: interop produce|transact|consume|pull|admin [flags]")
		os.Exit(2)
	}
	rlog.SetLogLevel("warn")
	clients := map[string]func(options) error{
		"produce": produce, "transact": transact, "consume": consume, "pull": pull, "admin": administer,
	}
	client, known := clients[os.Args[1]]
	if !known {
		fmt.Fprintf(os.Stderr, "there is no sub-command %q\n", os.Args[1])
		os.Exit(2)
	}
	if err := client(parse(os.Args[1], os.Args[2:])); err != nil {
		fail(err)
		os.Exit(1)
	}
	say("ended", nil)
}

func parse(name string, arguments []string) options {
	var o options
	set := flag.NewFlagSet(name, flag.ExitOnError)
	set.StringVar(&o.namesrv, "namesrv", "127.0.0.1:9876", "name servers, with ; between them")
	set.StringVar(&o.group, "group", "go", "group of the producer or consumer")
	set.StringVar(&o.instance, "instance", "one", "instance name, a part of the client's id")
	set.StringVar(&o.namespace, "namespace", "", "namespace of topics and groups")
	set.StringVar(&o.accessKey, "access-key", "", "name of the user that signs")
	set.StringVar(&o.secretKey, "secret-key", "", "secret of that user")
	set.StringVar(&o.topic, "topic", "", "topic to consume")
	set.StringVar(&o.expression, "expression", "*", "tags, or a filter in SQL92")
	set.StringVar(&o.mode, "mode", "concurrent", "concurrent, orderly, broadcast, reply, reject-N or suspend-N")
	set.StringVar(&o.selector, "selector", "chosen", "chosen (by queue id, else in turn) or hash (by sharding key)")
	set.BoolVar(&o.isSQL, "sql", false, "the expression is SQL92")
	set.BoolVar(&o.isTraced, "trace", false, "write the message trace")
	set.BoolVar(&o.isFromLast, "from-last", false, "a new group begins at the end of the queues")
	set.IntVar(&o.mostRetries, "most-retries", -1, "times that a message may be consumed again")
	_ = set.Parse(arguments)
	return o
}

func (o options) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver(strings.Split(o.namesrv, ";"))
}

func (o options) credentials() primitive.Credentials {
	return primitive.Credentials{AccessKey: o.accessKey, SecretKey: o.secretKey}
}

func (o options) trace() *primitive.TraceConfig {
	return &primitive.TraceConfig{
		GroupName: "trace-" + o.group, Access: primitive.Local, Resolver: o.resolver(), Credentials: o.credentials(),
	}
}

// serve carries out one request a line until the input ends; a failure is an event, not the end.
func serve(carryOut func(request []string) error) error {
	say("started", nil)
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := carryOut(strings.Split(strings.TrimSuffix(line, "\n"), "\t")); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	say("failure", fields{"error": fmt.Sprintf("%T", err), "code": 0, "remark": err.Error()})
}

// say prints one event; readers tell events from other lines by how they begin.
func say(event string, what fields) {
	said, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	line := fmt.Sprintf("{%q:%q", "event", event)
	if len(what) > 0 {
		line += "," + string(said[1:len(said)-1])
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(line + "}")
}
