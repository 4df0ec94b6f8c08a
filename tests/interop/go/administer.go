package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
)

// administer carries out `create broker topic queues`, `delete topic`, `queues topic`, `topics`, `groups broker`.
func administer(o options) error {
	chosen := []admin.AdminOption{admin.WithResolver(o.resolver()), admin.WithNamespace(o.namespace)}
	if o.accessKey != "" {
		chosen = append(chosen, admin.WithCredentials(o.credentials()))
	}
	client, err := admin.NewAdmin(chosen...)
	if err != nil {
		return err
	}
	err = serve(func(request []string) error {
		ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
		defer cancel()
		return administration(ctx, client, request)
	})
	if err != nil {
		return err
	}
	return client.Close()
}

func administration(ctx context.Context, client admin.Admin, request []string) error {
	names := []string{}
	switch request[0] {
	case "create":
		queues, err := strconv.Atoi(request[3])
		if err != nil {
			return err
		}
		err = client.CreateTopic(ctx, admin.WithTopicCreate(request[2]), admin.WithBrokerAddrCreate(request[1]),
			admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
		if err != nil {
			return err
		}
	case "delete":
		if err := client.DeleteTopic(ctx, admin.WithTopicDelete(request[1])); err != nil {
			return err
		}
	case "queues":
		queues, err := client.FetchPublishMessageQueues(ctx, request[1])
		if err != nil {
			return err
		}
		for _, queue := range queues {
			names = append(names, fmt.Sprintf("%s:%d", queue.BrokerName, queue.QueueId))
		}
	case "topics":
		topics, err := client.FetchAllTopicList(ctx)
		if err != nil {
			return err
		}
		names = topics.TopicList
	case "groups":
		groups, err := client.GetAllSubscriptionGroup(ctx, request[1], 3*time.Second)
		if err != nil {
			return err
		}
		for name := range groups.SubscriptionGroupTable {
			names = append(names, name)
		}
	default:
		return fmt.Errorf("there is no request %q", request[0])
	}
	sort.Strings(names)
	say("done", fields{"names": names})
	return nil
}
