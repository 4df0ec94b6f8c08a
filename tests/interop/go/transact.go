package main

import (
	"context"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

var states = map[string]primitive.LocalTransactionState{
	"commit": primitive.CommitMessageState, "rollback": primitive.RollbackMessageState, "unknown": primitive.UnknowState,
}

// decider does with a message what its own properties say: `ends` at once, `checked` when the broker asks.
type decider struct{}

func (decider) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	say("executed", fields{"body": string(message.Body), "transactionId": message.TransactionId})
	return states[message.GetProperty("ends")]
}

func (decider) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	say("checked", fields{
		"body": string(message.Body), "msgId": message.MsgId, "transactionId": message.TransactionId,
		"properties": message.GetProperties(),
	})
	return states[message.GetProperty("checked")]
}

// transact sends half messages: `topic ends checked body`.
func transact(o options) error {
	client, err := rocketmq.NewTransactionProducer(decider{}, producerOptions(o)...)
	if err != nil {
		return err
	}
	if err := client.Start(); err != nil {
		return err
	}
	err = serve(func(request []string) error {
		ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
		defer cancel()
		message := primitive.NewMessage(request[0], []byte(request[3]))
		message.WithProperty("ends", request[1])
		message.WithProperty("checked", request[2])
		result, err := client.SendMessageInTransaction(ctx, message)
		if err != nil {
			return err
		}
		return sent(result.SendResult, nil)
	})
	if err != nil {
		return err
	}
	return client.Shutdown()
}
