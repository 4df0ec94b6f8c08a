package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const sendTimeout = 10 * time.Second

// chosen sends to the queue that a message names, and in turn to all where it names none.
type chosen struct{ inTurn producer.QueueSelector }

func (c chosen) Select(
	message *primitive.Message, queues []*primitive.MessageQueue, lastBroker string,
) *primitive.MessageQueue {
	if message.Queue != nil {
		return producer.NewManualQueueSelector().Select(message, queues, lastBroker)
	}
	return c.inTurn.Select(message, queues, lastBroker)
}

func producerOptions(o options) []producer.Option {
	var selector producer.QueueSelector = chosen{producer.NewRoundRobinQueueSelector()}
	if o.selector == "hash" {
		selector = producer.NewHashQueueSelector()
	}
	chosen := []producer.Option{
		producer.WithNsResolver(o.resolver()),
		producer.WithGroupName(o.group),
		producer.WithInstanceName(o.instance),
		producer.WithNamespace(o.namespace),
		producer.WithRetry(2),
		producer.WithQueueSelector(selector),
	}
	if o.accessKey != "" {
		chosen = append(chosen, producer.WithCredentials(o.credentials()))
	}
	if o.isTraced {
		chosen = append(chosen, producer.WithTrace(o.trace()))
	}
	return chosen
}

// produce sends: `sync|async|oneway|batch topic tag keys delayLevel queueId count properties body`, and asks:
// `ask|ask-async topic timeoutMs body`.
func produce(o options) error {
	client, err := rocketmq.NewProducer(producerOptions(o)...)
	if err != nil {
		return err
	}
	if err := client.Start(); err != nil {
		return err
	}
	err = serve(func(request []string) error {
		// not cancelled here: what is sent asynchronously goes on, and the client has a time limit of its own
		ctx := context.Background()
		switch request[0] {
		case "ask", "ask-async":
			return ask(ctx, client, request)
		default:
			return send(ctx, client, request)
		}
	})
	if err != nil {
		return err
	}
	return client.Shutdown()
}

func send(ctx context.Context, client rocketmq.Producer, request []string) error {
	messages, err := messagesOf(request)
	if err != nil {
		return err
	}
	if request[0] == "batch" {
		result, err := client.SendSync(ctx, messages...)
		return sent(result, err)
	}
	for i, message := range messages {
		isLast := i == len(messages)-1
		switch request[0] {
		case "sync":
			result, err := client.SendSync(ctx, message)
			if err != nil || isLast {
				return sent(result, err)
			}
		case "async":
			err := client.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
				if err := sent(result, err); err != nil {
					fail(err)
				}
			}, message)
			if err != nil {
				return err
			}
		case "oneway":
			if err := client.SendOneWay(ctx, message); err != nil {
				return err
			}
			if isLast {
				say("sent", fields{"status": "ONE_WAY"})
			}
		default:
			return fmt.Errorf("there is no way of sending %q", request[0])
		}
	}
	return nil
}

func messagesOf(request []string) ([]*primitive.Message, error) {
	topic, tag, keys := request[1], request[2], request[3]
	delayLevel, err := strconv.Atoi(request[4])
	if err != nil {
		return nil, err
	}
	queueID, err := strconv.Atoi(request[5])
	if err != nil {
		return nil, err
	}
	count, err := strconv.Atoi(request[6])
	if err != nil {
		return nil, err
	}
	var messages []*primitive.Message
	for i := 0; i < count; i++ {
		body := request[8]
		if count > 1 {
			body = fmt.Sprintf("%s-%d", body, i)
		}
		message := primitive.NewMessage(topic, []byte(body))
		if tag != "" {
			message.WithTag(tag)
		}
		if keys != "" {
			message.WithKeys(strings.Fields(keys))
		}
		if delayLevel > 0 {
			message.WithDelayTimeLevel(delayLevel)
		}
		if queueID >= 0 {
			message.Queue = &primitive.MessageQueue{Topic: topic, BrokerName: "broker-a", QueueId: queueID}
		}
		for _, pair := range strings.Split(request[7], ",") {
			if name, value, found := strings.Cut(pair, "="); found {
				message.WithProperty(name, value)
			}
		}
		messages = append(messages, message)
	}
	return messages, nil
}

func sent(result *primitive.SendResult, err error) error {
	if err != nil {
		return err
	}
	said := fields{
		"status": int(result.Status), "msgId": result.MsgID, "offsetMsgId": result.OffsetMsgID,
		"queueOffset": result.QueueOffset, "transactionId": result.TransactionID, "region": result.RegionID,
	}
	if result.MessageQueue != nil {
		said["queueId"] = result.MessageQueue.QueueId
	}
	say("sent", said)
	return nil
}

func ask(ctx context.Context, client rocketmq.Producer, request []string) error {
	timeoutMs, err := strconv.Atoi(request[2])
	if err != nil {
		return err
	}
	timeout := time.Duration(timeoutMs) * time.Millisecond
	message := primitive.NewMessage(request[1], []byte(request[3]))
	if request[0] == "ask" {
		answer, err := client.Request(ctx, timeout, message)
		return answered(answer, err)
	}
	return client.RequestAsync(ctx, timeout, func(_ context.Context, answer *primitive.Message, err error) {
		if err := answered(answer, err); err != nil {
			fail(err)
		}
	}, message)
}

func answered(answer *primitive.Message, err error) error {
	if err != nil {
		return err
	}
	say("answered", fields{"body": string(answer.Body), "properties": answer.GetProperties()})
	return nil
}
