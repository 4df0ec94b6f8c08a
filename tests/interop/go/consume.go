package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func consumerOptions(o options) []consumer.Option {
	from := consumer.ConsumeFromFirstOffset
	if o.isFromLast {
		from = consumer.ConsumeFromLastOffset
	}
	chosen := []consumer.Option{
		consumer.WithNsResolver(o.resolver()),
		consumer.WithGroupName(o.group),
		consumer.WithInstance(o.instance),
		consumer.WithNamespace(o.namespace),
		consumer.WithConsumeFromWhere(from),
		consumer.WithMaxReconsumeTimes(int32(o.mostRetries)),
		consumer.WithStrategy(watched(o)),
	}
	if o.accessKey != "" {
		chosen = append(chosen, consumer.WithCredentials(o.credentials()))
	}
	if o.isTraced {
		chosen = append(chosen, consumer.WithTrace(o.trace()))
	}
	return chosen
}

// watched shares queues out evenly, and says which queues of the topic are ours now.
func watched(o options) consumer.AllocateStrategy {
	var guard sync.Mutex
	last := ""
	return func(group, client string, queues []*primitive.MessageQueue, clients []string) []*primitive.MessageQueue {
		ours := consumer.AllocateByAveragely(group, client, queues, clients)
		if len(queues) == 0 || !strings.HasSuffix(queues[0].Topic, o.topic) || strings.HasPrefix(queues[0].Topic, "%") {
			return ours
		}
		numbers := []int{}
		for _, queue := range ours {
			numbers = append(numbers, queue.QueueId)
		}
		sort.Ints(numbers)
		guard.Lock()
		defer guard.Unlock()
		if now := fmt.Sprint(numbers); now != last {
			last = now
			say("queues", fields{"queues": numbers})
		}
		return ours
	}
}

func (o options) wanted() consumer.MessageSelector {
	if o.isSQL {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: o.expression}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: o.expression}
}

// consume is a push consumer; requests: `suspend`, `resume`.
func consume(o options) error {
	chosen := consumerOptions(o)
	switch {
	case o.mode == "broadcast":
		chosen = append(chosen, consumer.WithConsumerModel(consumer.BroadCasting))
	case o.mode == "orderly" || strings.HasPrefix(o.mode, "suspend-"):
		chosen = append(chosen, consumer.WithConsumerOrder(true), consumer.WithConsumerModel(consumer.Clustering))
	}
	client, err := rocketmq.NewPushConsumer(chosen...)
	if err != nil {
		return err
	}
	handle, end, err := handler(o)
	if err != nil {
		return err
	}
	if err := client.Subscribe(o.topic, o.wanted(), handle); err != nil {
		return err
	}
	if err := client.Start(); err != nil {
		return err
	}
	err = serve(func(request []string) error {
		switch request[0] {
		case "suspend":
			client.Suspend()
		case "resume":
			client.Resume()
		default:
			return fmt.Errorf("there is no request %q", request[0])
		}
		say("done", nil)
		return nil
	})
	if err != nil {
		return err
	}
	if err := client.Shutdown(); err != nil {
		return err
	}
	return end()
}

type handling = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// handler prints messages and gives the first N deliveries back, where the mode says so.
func handler(o options) (handling, func() error, error) {
	nothing := func() error { return nil }
	if o.mode == "reply" {
		return replier(o)
	}
	kind, number, _ := strings.Cut(o.mode, "-")
	refused, failing := 0, consumer.ConsumeRetryLater
	if kind == "suspend" {
		failing = consumer.SuspendCurrentQueueAMoment
	}
	if number != "" {
		var err error
		if refused, err = strconv.Atoi(number); err != nil {
			return nil, nil, err
		}
	}
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		describe(messages...)
		if int(messages[0].ReconsumeTimes) < refused {
			return failing, nil
		}
		return consumer.ConsumeSuccess, nil
	}, nothing, nil
}

// replier answers each question by its body in capitals.
func replier(o options) (handling, func() error, error) {
	answering := o
	answering.group, answering.instance = o.group+"-answers", o.instance+"-answers"
	client, err := rocketmq.NewProducer(producerOptions(answering)...)
	if err != nil {
		return nil, nil, err
	}
	if err := client.Start(); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		describe(messages...)
		for _, message := range messages {
			if message.GetProperty(primitive.PropertyMessageReplyToClient) == "" {
				continue // nobody asked
			}
			answer, err := consumer.CreateReplyMessage(message, nil)
			if err == nil {
				answer.Body = []byte(strings.ToUpper(string(message.Body)))
				_, err = client.SendSync(ctx, answer)
			}
			if err != nil {
				fail(err)
			}
		}
		return consumer.ConsumeSuccess, nil
	}, client.Shutdown, nil
}

func describe(messages ...*primitive.MessageExt) {
	for _, message := range messages {
		said := fields{
			"topic": message.Topic, "body": string(message.Body), "tags": message.GetTags(), "keys": message.GetKeys(),
			"msgId": message.MsgId, "offsetMsgId": message.OffsetMsgId, "queueOffset": message.QueueOffset,
			"reconsumeTimes": message.ReconsumeTimes, "bornMs": message.BornTimestamp, "storeMs": message.StoreTimestamp,
			"arrivedMs": time.Now().UnixMilli(), "properties": message.GetProperties(),
		}
		if message.Queue != nil {
			said["queueId"] = message.Queue.QueueId
		}
		say("message", said)
	}
}
