package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// pull is a pull consumer: `from queueId offset count`, `next count`, `poll timeoutMs success|later`,
// `commit queueId offset`, `offset queueId`.
func pull(o options) error {
	client, err := rocketmq.NewPullConsumer(consumerOptions(o)...)
	if err != nil {
		return err
	}
	if err := client.Subscribe(o.topic, o.wanted()); err != nil {
		return err
	}
	if err := client.Start(); err != nil {
		return err
	}
	err = serve(func(request []string) error {
		numbers := make([]int, len(request))
		for i, value := range request[1:] {
			numbers[i+1], _ = strconv.Atoi(value)
		}
		return pulling(o, client, request, numbers)
	})
	if err != nil {
		return err
	}
	return client.Shutdown()
}

func pulling(o options, client rocketmq.PullConsumer, request []string, numbers []int) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	switch request[0] {
	case "from":
		result, err := client.PullFrom(ctx, o.queue(numbers[1]), int64(numbers[2]), numbers[3])
		return pulled(result, err)
	case "next":
		result, err := client.Pull(ctx, numbers[1])
		return pulled(result, err)
	case "poll":
		return poll(ctx, client, time.Duration(numbers[1])*time.Millisecond, request[2])
	case "commit":
		if err := client.UpdateOffset(o.queue(numbers[1]), int64(numbers[2])); err != nil {
			return err
		}
		if err := client.PersistOffset(ctx, o.topic); err != nil {
			return err
		}
		say("committed", nil)
	case "offset":
		offset, err := client.CurrentOffset(o.queue(numbers[1]))
		if err != nil {
			return err
		}
		say("offset", fields{"offset": offset})
	default:
		return fmt.Errorf("there is no request %q", request[0])
	}
	return nil
}

func (o options) queue(number int) *primitive.MessageQueue {
	return &primitive.MessageQueue{Topic: o.topic, BrokerName: "broker-a", QueueId: number}
}

func pulled(result *primitive.PullResult, err error) error {
	if err != nil {
		return err
	}
	describe(result.GetMessageExts()...)
	say("pulled", fields{
		"status": int(result.Status), "next": result.NextBeginOffset, "min": result.MinOffset, "max": result.MaxOffset,
	})
	return nil
}

func poll(ctx context.Context, client rocketmq.PullConsumer, timeout time.Duration, outcome string) error {
	taken, err := client.Poll(ctx, timeout)
	if consumer.IsNoNewMsgError(err) {
		say("polled", fields{"count": 0})
		return nil
	}
	if err != nil {
		return err
	}
	describe(taken.GetMsgList()...)
	result := consumer.ConsumeSuccess
	if outcome == "later" {
		result = consumer.ConsumeRetryLater
	}
	client.ACK(ctx, taken, result)
	say("polled", fields{"count": len(taken.GetMsgList())})
	return nil
}
